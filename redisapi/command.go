package redisapi

// command is a row of the command table, from which everything follows that is said of commands: how
// they are found and run, what COMMAND replies, and docs/redis.md.
type command struct {
	name    string // in lower case; of a subcommand its second word
	arity   int    // arguments with the name, or if negative the least of them
	how     how
	flags   flags
	keys    keys
	sources sources
	run     func(*call) error
	since   string // of Redis
	summary string
	differs string // from Redis, for the manual
	subs    []*command
	inner   func(args [][]byte) (*command, error) // of COPAL.TYPED: which command it carries out

	group  string
	number int      // its place among all
	parent *command // of a subcommand
}

// how a command uses the store.
type how uint8

const (
	plainly  how = iota // by verbs that are atomic each, or not at all
	looking             // in a transaction that reads
	changing            // in a transaction that writes
)

// flags are what COMMAND tells of a command.
type flags uint16

const (
	write    flags = 1 << iota // it may change keys
	readonly                   // it reads keys
	fast                       // it takes no longer than O(log n)
	blocking                   // it may wait
	admin
	pubsub
	noAuth  // it works before AUTH
	noMulti // it cannot be queued
	noScript
	atOnce     // it is carried out at once, and not queued
	replicated // Redis may tell replicas of it, although it does not write
)

// sources says which keys of a command that writes are only read.
type sources uint8

const (
	noSources sources = iota
	theOthers         // all but the first, where the outcome goes
	theFirst          // the others are where it goes
)

// writesKey reports whether the command may write its n-th key, from 0.
func (cmd *command) writesKey(n int) bool {
	return cmd.flags&write != 0 && (cmd.sources == noSources || (n == 0) == (cmd.sources == theOthers))
}

// keys says which arguments are keys: from first to last, each step one. A negative last counts
// from the end. Where others are keys, find tells which.
type keys struct {
	first, last, step int
	find              func(args [][]byte) []int
}

var (
	noKeys   = keys{}
	oneKey   = keys{1, 1, 1, nil}
	twoKeys  = keys{1, 2, 1, nil}
	allKeys  = keys{1, -1, 1, nil}
	keyPairs = keys{1, -1, 2, nil}
)

// counted are keys that follow their number, which stands at an index.
func counted(at int) keys {
	return keys{0, 0, 0, func(args [][]byte) (found []int) {
		n, _ := indexed(args, at)
		for i := range n {
			found = append(found, at+1+i)
		}
		return found
	}}
}

// storedCounted is counted behind a first key, where the outcome is stored.
func storedCounted(at int) keys {
	of := counted(at)
	return keys{1, 1, 1, func(args [][]byte) []int { return append([]int{1}, of.find(args)...) }}
}

func indexed(args [][]byte, at int) (n int, ok bool) {
	if at >= len(args) {
		return 0, false
	}
	v, err := parseInt(args[at])
	if err != nil || v < 0 || v > int64(len(args)-at-1) {
		return 0, false
	}
	return int(v), true
}

// each calls f with the place of each key of a request.
func (k *keys) each(args [][]byte, f func(i int)) {
	switch {
	case k.find != nil:
		for _, i := range k.find(args) {
			f(i)
		}
		return
	case k.step == 0:
		return
	}
	last := k.last
	if last < 0 {
		last += len(args)
	}
	for i := k.first; i <= last && i < len(args); i += k.step {
		f(i)
	}
}

// none reports whether the command has no keys at all.
func (k *keys) none() bool { return k.step == 0 && k.find == nil }

// of are the keys of a request.
func (k *keys) of(args [][]byte) (found [][]byte) {
	k.each(args, func(i int) { found = append(found, args[i]) })
	return found
}

// takes reports whether a request has as many arguments as the command takes.
func (cmd *command) takes(args int) bool {
	return args == cmd.arity || cmd.arity < 0 && args >= -cmd.arity
}

// fullName is the name behind the name of the parent: "client|list".
func (cmd *command) fullName() string {
	if cmd.parent != nil {
		return cmd.parent.name + "|" + cmd.name
	}
	return cmd.name
}

type family struct {
	group, title string
	commands     []*command
}

// known adds a family to the table. It is called by the variables of the files that have commands.
func known(group, title string, commands ...*command) family {
	for _, cmd := range commands {
		cmd.group = group
		if len(cmd.subs) > 0 && cmd.sub([]byte("help")) == nil {
			cmd.subs = append(cmd.subs, &command{name: "help", arity: 2, run: (*call).subHelp, since: "5.0.0", summary: "Returns these commands."})
		}
		for _, sub := range cmd.subs {
			sub.group, sub.parent = group, cmd
		}
	}
	return family{group, title, commands}
}

func (cmd *command) sub(name []byte) *command {
	var room [32]byte
	name = lower(room[:0], name)
	for _, sub := range cmd.subs {
		if sub.name == string(name) {
			return sub
		}
	}
	return nil
}

// lower appends a name in lower case. What is too long for a name is cut off, so that it is none.
func lower(dst, name []byte) []byte {
	for _, c := range name[:min(len(name), 32)] {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}
