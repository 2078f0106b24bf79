package importing

// Help is the help of import.
const Help = `Read entries that 'copal export' or another program has written into a store, in the
place of those that are under their keys.

FILE "-", or none, is standard input. A store that is missing is created. The formats,
which are recognized where --from does not say:

  copal       what copal export writes
  jsonl       JSON objects, one on each line: --key names the field that is the key, and
              the object is the value; without, {"key":"users:alice","value":{"Age":28}}
  csv         a table with a row of names: --key names the column that is the key, and
              the row becomes an object, of strings or, with --numbers, of numbers too
  go-persist  a log of go-persist
  bbolt       a file: the keys of a bucket get its name in front, as those of a map
  badger      a directory, which was closed, with deadlines
  buntdb      a file, with deadlines
  rdb         a file of Redis or Valkey, with deadlines; the keys of database 1 get db%3a1:
              in front, as those of a map db:1
  redis       what a server of Redis has now: FILE is redis://user:password@host:port/1,
              without a database all of them, rediss:// for TLS, unix:///run/redis.sock;
              the password may stand in the variable REDISCLI_AUTH instead

A file of another format, or with a malformed beginning, is refused: nothing is changed, and
no store is made. A last line that was cut is reported and left out; the lines before it are
imported. A malformed line before the last ends the import, unless --skip-bad leaves it out.
Expired entries are left out and counted.

After an import from Redis, file or server, all is read once more, and each key compared
with its entry in the store. Values of modules and functions are reported, counted and left
out. If the server is written to meanwhile, import the keys that differ once more; keys that
are deleted there meanwhile stay in the store, and those without a deadline are counted.

An interrupted import can be run again from the beginning, with the same result, or with
--resume, which goes on near the place where it ended. Until the import is complete, the
file IMPORT in the store's directory has that place.

DIR may also be a server: redis://host:port. A copal serve keeps all that a directory
keeps. On a Redis a value is the bytes that its codec has made, content types are left
out and counted, and a stream keeps less; it has to be Redis 7.0 or later to take
streams. Writes count as they are made: up to 4096 entries together, where the server
takes that, and a collection in parts; one at a time is in memory. A value of more than
512 MiB is an error. There is no --resume then. Values from Redis are not fitted to
typed maps, whose types a server does not give.`

// Example has examples of import.
const Example = `  copal import app.db < dump.ndjson
  copal import app.db users.csv --key id --map users --numbers
  copal import app.db old.bolt --dry-run
  copal import app.db --from badger /var/lib/old
  copal import app.db /var/lib/redis/dump.rdb
  copal import app.db redis://localhost:6379
  copal import redis://localhost:6379 dump.ndjson`
