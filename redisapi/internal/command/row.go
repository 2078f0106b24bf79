package command

// Row is a row of the command table, from which everything follows that is said of commands: how
// they are found and run, what COMMAND replies, and docs/redis.md.
type Row struct {
	Name     string // in lower case; of a subcommand its second word
	Arity    int    // arguments with the name, or if negative the least of them
	How      How
	Flags    Flags
	Keys     Keys
	Sources  sources
	Run      func(*Call) error
	IsSilent bool   // a key that it reads in vain is no event
	Since    string // of Redis
	Summary  string
	Differs  string // from Redis, for the manual
	Subs     []*Row
	Inner    func(args [][]byte) (*Row, error) // of COPAL.TYPED: which command it carries out

	Group  string
	Number int  // its place among all
	Parent *Row // of a subcommand
}

// How a command uses the store.
type How uint8

const (
	plainly  How = iota // by verbs that are atomic each, or not at all
	Looking             // in a transaction that reads
	Changing            // in a transaction that writes
)

// Flags are the properties of a command that COMMAND returns.
type Flags uint16

const (
	Write    Flags = 1 << iota // it may change keys
	ReadOnly                   // it reads keys
	Fast                       // it takes no longer than O(log n)
	Blocking                   // it may wait
	Admin
	PubSub
	NoAuth  // it works before AUTH
	NoMulti // it cannot be queued
	NoScript
	AtOnce     // it is carried out at once, and not queued
	Replicated // Redis may pass it on to replicas, although it does not write
)

// sources says which keys of a command that writes are only read.
type sources uint8

const (
	noSources sources = iota
	TheOthers         // all but the first, where the outcome goes
	TheFirst          // the others are where it goes
)

// WritesKey reports whether the command may write its n-th key, from 0.
func (cmd *Row) WritesKey(n int) bool {
	return cmd.Flags&Write != 0 && (cmd.Sources == noSources || (n == 0) == (cmd.Sources == TheOthers))
}

// Keys says which arguments are keys: from first to last, each step one. A negative last counts
// from the end. Where others are keys, Find returns their places.
type Keys struct {
	First, Last, Step int
	Find              func(args [][]byte) []int
}

var (
	NoKeys   = Keys{}
	OneKey   = Keys{1, 1, 1, nil}
	TwoKeys  = Keys{1, 2, 1, nil}
	AllKeys  = Keys{1, -1, 1, nil}
	KeyPairs = Keys{1, -1, 2, nil}
)

// Counted are keys that follow their number, which is at an index.
func Counted(at int) Keys {
	return Keys{0, 0, 0, func(args [][]byte) (found []int) {
		n, _ := indexed(args, at)
		for i := range n {
			found = append(found, at+1+i)
		}
		return found
	}}
}

// StoredCounted is Counted after a first key, where the outcome is stored.
func StoredCounted(at int) Keys {
	of := Counted(at)
	return Keys{1, 1, 1, func(args [][]byte) []int { return append([]int{1}, of.Find(args)...) }}
}

func indexed(args [][]byte, at int) (n int, ok bool) {
	if at >= len(args) {
		return 0, false
	}
	v, err := ParseInt(args[at])
	if err != nil || v < 0 || v > int64(len(args)-at-1) {
		return 0, false
	}
	return int(v), true
}

// Each calls f with the place of each key of a request.
func (k *Keys) Each(args [][]byte, f func(i int)) {
	switch {
	case k.Find != nil:
		for _, i := range k.Find(args) {
			f(i)
		}
		return
	case k.Step == 0:
		return
	}
	last := k.Last
	if last < 0 {
		last += len(args)
	}
	for i := k.First; i <= last && i < len(args); i += k.Step {
		f(i)
	}
}

// None reports whether the command has no keys at all.
func (k *Keys) None() bool { return k.Step == 0 && k.Find == nil }

// Of are the keys of a request.
func (k *Keys) Of(args [][]byte) (found [][]byte) {
	k.Each(args, func(i int) { found = append(found, args[i]) })
	return found
}

// Takes reports whether a request has as many arguments as the command takes.
func (cmd *Row) Takes(args int) bool {
	return args == cmd.Arity || cmd.Arity < 0 && args >= -cmd.Arity
}

// Writes reports whether a pause of writes holds the command.
func (cmd *Row) Writes() bool { return cmd.Flags&(Write|Replicated) != 0 }

// FullName is the name of a subcommand after that of its command: "client|list".
func (cmd *Row) FullName() string {
	if cmd.Parent != nil {
		return cmd.Parent.Name + "|" + cmd.Name
	}
	return cmd.Name
}

type Family struct {
	Group, Title string
	Rows         []*Row
}

// NewFamily adds a family to the table. It is called by the variables of the files that have commands.
func NewFamily(group, title string, commands ...*Row) Family {
	for _, cmd := range commands {
		cmd.Group = group
		if len(cmd.Subs) > 0 && cmd.Sub([]byte("help")) == nil {
			cmd.Subs = append(cmd.Subs, &Row{Name: "help", Arity: 2, Run: (*Call).subHelp, Since: "5.0.0", Summary: "Returns these commands."})
		}
		for _, sub := range cmd.Subs {
			sub.Group, sub.Parent = group, cmd
		}
	}
	return Family{group, title, commands}
}

func (cmd *Row) Sub(name []byte) *Row {
	var room [32]byte
	name = Lower(room[:0], name)
	for _, sub := range cmd.Subs {
		if sub.Name == string(name) {
			return sub
		}
	}
	return nil
}

// Lower appends a name in lower case. A text that is too long for a name is cut off, and is no name.
func Lower(dst, name []byte) []byte {
	for _, c := range name[:min(len(name), 32)] {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
