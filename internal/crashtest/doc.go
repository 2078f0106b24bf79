// Package crashtest crashes the users of a log: the store and hybridlog alike, each of which is an
// Owner.
//
// A script of steps runs on a file system that records the durable state. At the boundaries of its
// file operations, and within every write, the process is killed and the power is cut in as many
// ways as the model knows. Within every copy into a ring the process is killed with any part of the
// copy missing. Each time the owner is opened on the resulting state:
//
//   - it holds the result of a prefix of the script;
//   - that prefix has every write that was acknowledged at its durability;
//   - after a sync a power cut takes nothing of its content; if the disk is too full for a sync,
//     nothing is lost;
//   - it takes writes, and opens again with them.
//
// A death within a script, and the death of a survivor, may come with a write-back that fails: the
// cache then shows bytes that the disk never gets. A sample of the survivors is crashed once more,
// during their recovery and the writes after it.
//
// An [Injector] fails each file operation of a script instead, and has a verdict of its own.
package crashtest
