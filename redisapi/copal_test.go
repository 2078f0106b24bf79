package redisapi

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/copaldb/copal"
	"github.com/copaldb/copal/access"
	copaladmin "github.com/copaldb/copal/admin"
	"github.com/copaldb/copal/codec"
	"github.com/copaldb/copal/internal/wire"
	"github.com/copaldb/copal/redisapi/internal/command"
	"github.com/copaldb/copal/redisapi/internal/native"
)

// reversed is a codec of a program's own, which the server does not know: JSON, and its bytes the other way round.
type reversed struct{}

func (reversed) Name() string { return "reversed" }

func (reversed) Compile(t reflect.Type) (codec.Type, error) {
	of, err := codec.JSON.Compile(t)
	return reversedType{of}, err
}

type reversedType struct{ codec.Type }

func (t reversedType) Append(dst []byte, v any) ([]byte, error) {
	n := len(dst)
	dst, err := t.Type.Append(dst, v)
	slices.Reverse(dst[n:])
	return dst, err
}

func (t reversedType) Decoder(schema string) (codec.Decoder, error) {
	of, err := t.Type.Decoder(schema)
	return reversedDecoder{of}, err
}

type reversedDecoder struct{ codec.Decoder }

func (d reversedDecoder) Decode(src []byte, v any) error {
	src = slices.Clone(src)
	slices.Reverse(src)
	return d.Decoder.Decode(src, v)
}

type person struct {
	Name string
	Age  int
}

// typedStore is a server whose store has a map, a hash and a list of persons in a codec, each with Ada and Bob, and
// those in the typed form, quoted.
type typedStore struct {
	*peer
	db       *copal.DB
	people   *copal.Map[string, person]
	hash     *copal.HashOf[string, person]
	list     *copal.ListOf[person]
	ada, bob string
}

var ada, bob = person{"Ada", 36}, person{"Bob", 7}

func newTypedStore(t *testing.T, c codec.Codec) *typedStore {
	t.Helper()
	db, err := copal.OpenMemory(copal.WithCodec(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	_, address := newServer(t, func(s *Server) {
		s.DB.Close()
		s.DB = db
	})
	s := &typedStore{peer: dial(t, address), db: db}
	var err1, err2, err3 error
	s.people, err1 = copal.OpenMap[string, person](db, "people")
	s.hash, err2 = copal.OpenHash[string, person](db, "hash")
	s.list, err3 = copal.OpenList[person](db, "list")
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	s.fill()
	s.ada, s.bob = s.do("COPAL.TYPED GET people:ada"), s.do("COPAL.TYPED GET people:bob")
	return s
}

func (s *typedStore) fill() {
	s.t.Helper()
	_, err1 := s.hash.Clear()
	_, err2 := s.list.Clear()
	err := errors.Join(err1, err2, s.people.Clear(), s.people.Set("ada", ada), s.people.Set("bob", bob), s.hash.Set("ada", ada), s.hash.Set("bob", bob),
		s.list.PushBack(ada, bob))
	if err != nil {
		s.t.Fatal(err)
	}
}

// stored lists the entries, fields and elements that a program with the types reads.
func (s *typedStore) stored() string {
	var list []string
	for key, p := range s.people.All() {
		list = append(list, key+" "+p.Name)
	}
	slices.Sort(list)
	list = append(list, "|")
	for field, p := range s.hash.All() {
		list = append(list, field+" "+p.Name)
	}
	list = append(list, "|")
	for p := range s.list.All() {
		list = append(list, p.Name)
	}
	return strings.Join(list, ",")
}

// Each command that COPAL.TYPED accepts passes values in the typed form, and a program with the
// types reads the result. In the table, A is the value of Ada, and B the value of Bob.
func TestTypedCommands(t *testing.T) {
	const untouched = "ada Ada,bob Bob,|,ada Ada,bob Bob,|,Ada,Bob"
	in := func(people, hash, list string) string {
		return cmp.Or(people, "ada Ada,bob Bob") + ",|," + cmp.Or(hash, "ada Ada,bob Bob") + ",|," + cmp.Or(list, "Ada,Bob")
	}
	tests := []struct{ words, reply, stored string }{
		{"GET people:ada", "A", untouched},
		{"GET people:none", "nil", untouched},
		{"MGET people:ada people:none people:bob", "[A nil B]", untouched},
		{"SET people:eve A", "OK", in("ada Ada,bob Bob,eve Ada", "", "")},
		{"SET people:ada B IFEQ A", "OK", in("ada Bob,bob Bob", "", "")},
		{"SET people:ada B IFEQ B", "nil", untouched},
		{"SET people:ada B GET", "A", in("ada Bob,bob Bob", "", "")},
		{"SET people:ada B KEEPTTL", "OK", in("ada Bob,bob Bob", "", "")},
		{"SET people:ada B NX", "nil", untouched},
		{"SET people:eve B PXAT 9999999999999", "OK", in("ada Ada,bob Bob,eve Bob", "", "")},
		{"SETNX people:eve A", "1", in("ada Ada,bob Bob,eve Ada", "", "")},
		{"SETEX people:eve 1000 A", "OK", in("ada Ada,bob Bob,eve Ada", "", "")},
		{"PSETEX people:eve 100000 A", "OK", in("ada Ada,bob Bob,eve Ada", "", "")},
		{"GETSET people:ada B", "A", in("ada Bob,bob Bob", "", "")},
		{"GETDEL people:ada", "A", in("bob Bob", "", "")},
		{"GETEX people:ada PERSIST", "A", untouched},
		{"DELIFEQ people:ada A", "1", in("bob Bob", "", "")},
		{"DELEX people:ada IFEQ B", "0", untouched},
		{"DELEX people:ada IFEQ A", "1", in("bob Bob", "", "")},
		{"MSET people:eve A people:ada B", "OK", in("ada Bob,bob Bob,eve Ada", "", "")},
		{"MSETNX people:eve A people:eva B", "1", in("ada Ada,bob Bob,eva Bob,eve Ada", "", "")},
		{"MSETEX 2 people:eve A people:ada B KEEPTTL", "1", in("ada Bob,bob Bob,eve Ada", "", "")},
		{"HGET hash ada", "A", untouched},
		{"HMGET hash ada none bob", "[A nil B]", untouched},
		{"HGETALL hash", `["ada" A "bob" B]`, untouched},
		{"HVALS hash", "[A B]", untouched},
		{"HSCAN hash 0", `["0" ["bob" B "ada" A]]`, untouched},
		{"HRANDFIELD hash 2 WITHVALUES", `["ada" A "bob" B]`, untouched},
		{"HGETDEL hash FIELDS 1 ada", "[A]", in("", "bob Bob", "")},
		{"HSET hash eve A", "1", in("", "ada Ada,bob Bob,eve Ada", "")},
		{"HSET hash ada B eve A", "1", in("", "ada Bob,bob Bob,eve Ada", "")},
		{"HMSET hash ada B eve A", "OK", in("", "ada Bob,bob Bob,eve Ada", "")},
		{"HSETNX hash eve A", "1", in("", "ada Ada,bob Bob,eve Ada", "")},
		{"COPAL.SWAP hash ada IFEQ A SET B", "1", in("", "ada Bob,bob Bob", "")},
		{"COPAL.SWAP hash ada IFEQ B SET B", "0", untouched},
		{"COPAL.SWAP hash ada SET B", "0", untouched},
		{"COPAL.SWAP hash eve SET A", "1", in("", "ada Ada,bob Bob,eve Ada", "")},
		{"COPAL.SWAP hash eve IFEQ A", "0", untouched},
		{"COPAL.SWAP hash eve", "1", untouched},
		{"COPAL.SWAP hash ada", "0", untouched},
		{"COPAL.SWAP hash ada IFEQ A", "1", in("", "bob Bob", "")},
		{"LPOP list", "A", in("", "", "Bob")},
		{"RPOP list", "B", in("", "", "Ada")},
		{"RPOP list 1", "[B]", in("", "", "Ada")},
		{"LMPOP 1 list LEFT", `["list" [A]]`, in("", "", "Bob")},
		{"LINDEX list -1", "B", untouched},
		{"LRANGE list 0 -1", "[A B]", untouched},
		{"LREM list 1 A", "1", in("", "", "Bob")},
		{"LPOS list B", "1", untouched},
		{"LMOVE list list LEFT RIGHT", "A", in("", "", "Bob,Ada")},
		{"RPOPLPUSH list list", "B", in("", "", "Bob,Ada")},
		{"BRPOPLPUSH list list 0", "B", in("", "", "Bob,Ada")},
		{"BLMOVE list list LEFT RIGHT 0", "A", in("", "", "Bob,Ada")},
		{"BLPOP list 0", `["list" A]`, in("", "", "Bob")},
		{"BRPOP list 0", `["list" B]`, in("", "", "Ada")},
		{"BLMPOP 0 1 list LEFT", `["list" [A]]`, in("", "", "Bob")},
		{"LPUSH list A B", "4", in("", "", "Bob,Ada,Ada,Bob")},
		{"RPUSH list A B", "4", in("", "", "Ada,Bob,Ada,Bob")},
		{"LPUSHX list B", "3", in("", "", "Bob,Ada,Bob")},
		{"RPUSHX list A", "3", in("", "", "Ada,Bob,Ada")},
		{"LSET list 0 B", "OK", in("", "", "Bob,Bob")},
		{"LINSERT list BEFORE B A", "3", in("", "", "Ada,Ada,Bob")},
	}
	for _, c := range []codec.Codec{codec.JSON, codec.Binary, reversed{}} {
		t.Run(c.Name(), func(t *testing.T) {
			s := newTypedStore(t, c)
			tried := map[string]bool{}
			for _, test := range tests {
				name, _, _ := strings.Cut(test.words, " ")
				tried[strings.ToLower(name)] = true
				for _, how := range []string{"alone", "in EXEC", "in a transaction"} {
					if how == "in a transaction" && strings.HasPrefix(name, "B") {
						continue
					}
					s.fill()
					if got := s.in(how, "COPAL.TYPED "+s.named(test.words)); got != s.named(test.reply) {
						t.Errorf("%s %s: %s, want %s", test.words, how, got, s.named(test.reply))
					}
					if got := s.stored(); got != test.stored {
						t.Errorf("%s %s: the store has %s, want %s", test.words, how, got, test.stored)
					}
				}
			}
			for name := range native.TypedValues {
				if !tried[name] {
					t.Errorf("%s is not tried", name)
				}
			}
			s.want("TTL people:bob", "-1")
		})
	}
}

// named puts values in the place of their names.
func (s *typedStore) named(words string) string {
	out := []string{}
	for _, word := range strings.Split(words, " ") {
		bare := strings.Trim(word, "[]")
		if value := map[string]string{"A": s.ada, "B": s.bob}[bare]; value != "" {
			word = strings.Replace(word, bare, value, 1)
		}
		out = append(out, word)
	}
	return strings.Join(out, " ")
}

// in does a request alone, or in a transaction.
func (p *peer) in(how, words string) string {
	p.t.Helper()
	switch how {
	case "in EXEC":
		p.want("MULTI", "OK")
		p.want(words, "QUEUED")
		reply := p.do("EXEC")
		return strings.TrimSuffix(strings.TrimPrefix(reply, "["), "]")
	case "in a transaction":
		p.do("COPAL.BEGIN")
		defer p.want("COPAL.COMMIT", "OK")
	}
	return p.do(words)
}

// A value keeps the schema with which it was written, and a program with a newer type reads it.
// COPAL.TYPED SET stores the given bytes, whatever schema the map uses today.
func TestTypedKeepsSchemas(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	type old struct{ Name string }
	before, err := copal.OpenMap[string, old](s.DB, "people", copal.WithCodec(codec.Binary))
	if err == nil {
		err = errors.Join(before.Set("ada", old{"Ada"}), before.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	people, err := copal.OpenMap[string, person](s.DB, "people", copal.WithCodec(codec.Binary))
	if err == nil {
		err = people.Set("bob", bob)
	}
	if err != nil {
		t.Fatal(err)
	}
	earlier, today := p.do("COPAL.TYPED GET people:ada"), p.do("COPAL.TYPED GET people:bob")
	p.want("COPAL.TYPED SET people:eve "+earlier, "OK")
	if eve, err := people.Load("eve"); err != nil || eve != (person{Name: "Ada"}) {
		t.Errorf("%v, %v", eve, err)
	}
	p.want("COPAL.TYPED GET people:eve", earlier)
	p.want("COPAL.TYPED MGET people:ada people:bob", "["+earlier+" "+today+"]")
	p.want("GET people:eve", `"{\"Name\":\"Ada\"}"`)
	// A value without a schema is stored as by SET.
	p.want(`COPAL.TYPED SET people:raw "\x00\x00\x00\x00\x00\x00\x00\x00{\"Name\":\"R\"}"`, "OK")
	if raw, err := people.Load("raw"); err != nil || raw.Name != "R" {
		t.Errorf("%v, %v", raw, err)
	}
	p.want("COPAL.TYPED GET people:raw", `"\x00\x00\x00\x00\x00\x00\x00\x00{\"Name\":\"R\"}"`)
}

// A value that has no header, or names no schema that is known, is refused before anything is written.
func TestTypedRefuses(t *testing.T) {
	s := newTypedStore(t, codec.Binary)
	unknown := strconv.Quote("unknown1 value")
	for words, values := range native.TypedValues {
		if reflect.DeepEqual(values, command.NoKeys) {
			continue
		}
		line := map[string]string{"set": "people:x V", "setnx": "people:x V", "getset": "people:x V", "setex": "people:x 10 V", "psetex": "people:x 10 V",
			"mset": "people:x A people:y V", "msetnx": "people:x A people:y V", "msetex": "2 people:x A people:y V",
			"hset": "hash x A y V", "hmset": "hash x A y V", "hsetnx": "hash x V", "copal.swap": "hash x SET V", "lpush": "list A V", "rpush": "list A V", "lpushx": "list A V", "rpushx": "list A V",
			"lset": "list 0 V", "linsert": "list BEFORE A V"}[words]
		if line == "" {
			t.Fatalf("%s is not tried", words)
		}
		for value, reply := range map[string]string{unknown: string(command.ErrNoSchema), `"1234567"`: string(command.ErrHeader), `""`: string(command.ErrHeader)} {
			request := "COPAL.TYPED " + words + " " + s.named(strings.ReplaceAll(line, "V", value))
			for _, how := range []string{"alone", "in a transaction"} {
				if got := s.in(how, request); got != "(error) "+reply {
					t.Errorf("%s %s with %s: %s", words, how, value, got)
				}
			}
			s.want("MULTI", "OK")
			s.want("SET other v", "QUEUED")
			s.want(request, "(error) "+reply) // when it is queued, for EXEC would carry out the others
			s.want("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.")
		}
	}
	if got, want := s.stored(), "ada Ada,bob Bob,|,ada Ada,bob Bob,|,Ada,Bob"; got != want {
		t.Errorf("the store has %s, want %s", got, want)
	}
	for words, reply := range map[string]string{
		"COPAL.TYPED":                           "ERR wrong number of arguments for 'copal.typed' command",
		"COPAL.TYPED GET":                       "ERR wrong number of arguments for 'copal.typed' command",
		"COPAL.TYPED GET a b":                   "ERR wrong number of arguments for 'get' command",
		"COPAL.TYPED NOSUCH a":                  "ERR unknown command 'NOSUCH', with args beginning with: 'a' ",
		"COPAL.TYPED INCR a":                    "ERR 'incr' has no values in the typed form",
		"COPAL.TYPED APPEND a b":                "ERR 'append' has no values in the typed form",
		"COPAL.TYPED COPAL.TYPED GET a":         "ERR 'copal.typed' has no values in the typed form",
		"COPAL.TYPED CLIENT ID":                 "ERR 'client|id' has no values in the typed form",
		"COPAL.TYPED MSET a":                    "ERR wrong number of arguments for 'mset' command",
		"COPAL.TYPED MSETEX 9999999 a":          "ERR wrong number of arguments for 'msetex' command",
		"COPAL.TYPED MSETEX 9999999 a " + s.ada: "ERR invalid numkeys value",
	} {
		s.want(words, "(error) "+reply)
	}
	s.want("COMMAND GETKEYS COPAL.TYPED MSET a 1 b 2", `["a" "b"]`)
	s.want("MULTI", "OK")
	s.want("COPAL.TYPED INCR a", "(error) ERR 'incr' has no values in the typed form")
	s.want("EXEC", "(error) EXECABORT Transaction discarded because of previous errors.")
}

// A client that waits under COPAL.TYPED gets its value in the typed form, and others do not.
func TestTypedBlocks(t *testing.T) {
	piped(t, func(t *testing.T, s *Server, dial func() *peer) {
		a, b, p := dial(), dial(), dial()
		a.begin("COPAL.TYPED BLPOP k 0")
		b.begin("BLPOP k 0")
		p.want("RPUSH k 1 2", "2")
		a.wantNext(`["k" "\x00\x00\x00\x00\x00\x00\x00\x001"]`)
		b.wantNext(`["k" "2"]`)
		a.begin("BLPOP k 0")
		p.want(`COPAL.TYPED RPUSH k "\x00\x00\x00\x00\x00\x00\x00\x003"`, "1")
		a.wantNext(`["k" "3"]`)
	})
}

// COPAL.TYPED and COPAL.LEN use the selected database. Ranges and feeds are only of database 0.
func TestTypedInDatabases(t *testing.T) {
	s, address := newServer(t)
	p := dial(t, address)
	p.want("SELECT 3", "OK")
	p.want("MSET a 0 b 0", "OK")
	p.want(`COPAL.TYPED MSET a "\x00\x00\x00\x00\x00\x00\x00\x001" b "\x00\x00\x00\x00\x00\x00\x00\x002"`, "OK")
	if value, ok := s.DB.Raw().Get(command.Key(3, []byte("b"))); !ok || string(value) != "2" {
		t.Errorf("%q, %v", value, ok)
	}
	p.want("COPAL.LEN a", "1")
	p.want(`COPAL.LEN ""`, "2")
	p.want(`COPAL.RANGE "" ""`, "(error) ERR ranges are of database 0")
	p.want(`COPAL.DELRANGE "" ""`, "(error) ERR ranges are of database 0")
	p.want("COPAL.FEED OPEN", "(error) ERR changes are of database 0")
	p.want("SELECT 0", "OK")
	p.want("COPAL.LEN a", "0")
}

// A client registers a schema before it sends values of it. Programs that use the same schema share
// it.
func TestSchemas(t *testing.T) {
	s := newTypedStore(t, reversed{})
	for n, schema := range copaladmin.Schemas(s.db, -1) {
		name := wire.SchemaName(schema.Codec, schema.Schema)
		s.want(fmt.Sprintf("COPAL.SCHEMA GET %q", name[:]), fmt.Sprintf("[%q %q]", schema.Codec, schema.Schema))
		s.want(fmt.Sprintf("COPAL.SCHEMA SET %q %q", schema.Codec, schema.Schema), fmt.Sprintf("%q", name[:]))
		if again, err := copaladmin.AddSchema(s.db, schema); err != nil || again != n {
			t.Errorf("the number of a schema was %d, and is %d: %v", n, again, err)
		}
	}
	name := wire.SchemaName("mine", "a text")
	quoted := fmt.Sprintf("%q", name[:])
	value := fmt.Sprintf("%q", string(name[:])+"value")
	s.want("COPAL.SCHEMA GET "+quoted, "nil[]")
	s.want("COPAL.TYPED SET k "+value, "(error) "+string(command.ErrNoSchema))
	s.want(`COPAL.SCHEMA SET mine "a text"`, quoted)
	s.want("COPAL.SCHEMA GET "+quoted, `["mine" "a text"]`)
	s.want("COPAL.TYPED SET k "+value, "OK")
	s.want("COPAL.TYPED GET k", value)
	s.want("GET k", `"value"`)
	for words, reply := range map[string]string{
		"COPAL.SCHEMA GET short":         "ERR the name of a schema has eight bytes",
		"COPAL.SCHEMA SET Mine text":     "ERR the name of a codec is a word of lower-case letters and digits",
		`COPAL.SCHEMA SET "" text`:       "ERR the name of a codec is a word of lower-case letters and digits",
		`COPAL.SCHEMA SET "my own" text`: "ERR the name of a codec is a word of lower-case letters and digits",
		`COPAL.SCHEMA SET mine ""`:       "ERR a schema without a text is none: eight zero bytes name it",
	} {
		s.want(words, "(error) "+reply)
	}
	// Values with an invalid schema, or with one of an unknown codec, are stored. GET returns their
	// bytes, and a typed map returns ErrType.
	garbage := wire.SchemaName("binary", "no schema")
	s.want(`COPAL.SCHEMA SET binary "no schema"`, fmt.Sprintf("%q", garbage[:]))
	s.want(fmt.Sprintf("COPAL.TYPED SET k %q", string(garbage[:])+"value"), "OK")
	s.want("GET k", `"value"`)
	s.want(`COPAL.TYPED SET people:ada `+value, "OK")
	if _, err := s.people.Load("ada"); !errors.Is(err, copal.ErrType) {
		t.Error(err)
	}
}

// A schema is in the log from the first value on that has it, and a user does not fill the log with schemas.
func TestSchemasHaveALimit(t *testing.T) {
	s, address := newServer(t, func(s *Server) {
		s.Access = users(t, access.User{Name: "alice", Tokens: []string{access.Hash("alice")}, Write: []string{"a"}},
			access.User{Name: "bob", Tokens: []string{access.Hash("bob")}, Write: []string{"b"}})
	})
	p := dial(t, address)
	count := func() int { return len(copaladmin.Schemas(s.DB, -1)) }
	before := count()
	p.want("AUTH alice alice", "OK")
	name := func(text string) string {
		n := wire.SchemaName("mine", text)
		return string(n[:])
	}
	set := func(text string) {
		p.want(fmt.Sprintf("COPAL.SCHEMA SET mine %q", text), fmt.Sprintf("%q", name(text)))
	}
	get := func(text, reply string) { p.want(fmt.Sprintf("COPAL.SCHEMA GET %q", name(text)), reply) }
	for i := range 2 * command.MostAnnouncedOfUser {
		set(fmt.Sprint("unused", i))
	}
	get("unused0", "nil[]")
	get("unused127", `["mine" "unused127"]`)
	p.want("COPAL.SCHEMA SET mine "+strings.Repeat("x", command.MostSchemaBytes), "(error) ERR a schema of 65540 bytes, and the most is 65536")
	if n := count(); n != before {
		t.Errorf("%d schemas are in the log of which no value is", n-before)
	}
	use := func(key, text, reply string) {
		set(text)
		p.want(fmt.Sprintf("COPAL.TYPED SET %s %q", key, name(text)+"value"), reply)
	}
	long := strings.Repeat("x", command.MostSchemaBytes-20)
	for i := range command.MostBytesOfUser / command.MostSchemaBytes {
		use("a:k", fmt.Sprint(long, i), "OK")
	}
	use("a:k", long+"z", "(error) "+string(command.ErrManySchemas))
	use("a:k", long+"0", "OK") // which the log has
	if n := count(); n != before+command.MostBytesOfUser/command.MostSchemaBytes {
		t.Errorf("%d schemas are in the log", n-before)
	}
	p.want("AUTH bob bob", "OK")
	get("unused127", "nil[]")
	use("b:k", long+"z", "OK")
	p.want(fmt.Sprintf("COPAL.TYPED SET b:k %q", name("unused127")+"value"), "(error) "+string(command.ErrNoSchema))
}

// COPAL.SWAP takes IFEQ and SET once each and in this order, and only hashes.
func TestSwapRefuses(t *testing.T) {
	_, address := newServer(t)
	p := dial(t, address)
	for _, rest := range []string{"IFEQ", "IFEQ a SET", "SET a IFEQ b", "SET a SET b", "IFEQ a IFEQ b", "x", "x y"} {
		p.want("COPAL.SWAP h f "+rest, "(error) ERR syntax error")
	}
	p.want("SET k v", "OK")
	p.want("COPAL.SWAP k f SET a", "(error) WRONGTYPE Operation against a key holding the wrong kind of value")
	p.want("COPAL.SWAP h f SET a", "1")
	p.want("COPAL.SWAP h f IFEQ a SET b", "1")
	p.want("HGET h f", `"b"`)
}
