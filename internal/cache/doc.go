// Package cache keeps decoded values in memory, for readers that take no lock.
//
// A Cell has one key in memory: its value, and the place of its record in the log. The part of a published cell that
// readers look at never changes: a write makes a new cell and swaps the pointer. So a reader finds a whole value, the
// old or the new, and two loads of the same cell are the same value.
//
// A Table is the cells of one map: a hash table in as many shards as the store has locks for keys. So the lock that
// orders the writes of a key guards its shard, too. A shard is an array of buckets of one cache line each: seven
// pointers, and a word with a byte of the hash for each of them, so that a search touches the bucket, the cell and
// nothing else (the idea of David, Guerraoui and Trigonakis, "Asynchronized Concurrency", ASPLOS 2015, and of the tags
// in Swiss tables). A full bucket lets the next one help and remembers that it did. Cells do not move within an array;
// a shard grows alone, into a new array.
//
// A Budget bounds the memory of many tables. The clock algorithm chooses the cells that have to go (Corbató, "A paging
// experiment with the Multics system", 1968): a reader sets a cell's bit, and the hand clears it, or takes the cell if
// it is clear. When the budget is spent, a key that is not in the table must be asked for twice before it gets a cell,
// so that one pass over a large map does not drive out cells in use.
//
// The package knows no log: it does not write, and only the store can make a dirty cell clean.
package cache
