// Package copying copies a store into another one while the first is written to, and proves that both are equal.
//
// A copy has three parts. The walk goes through a view of the source and through the destination in
// the order of the keys, and writes the differences. Rounds follow: each takes a view of the
// source, reads from its feed the keys that have changed since the previous view, and copies these
// from the view. The end compares everything.
//
// So no change is applied twice or in the wrong order: a copy always writes the state of a key at
// one moment, and repeating a part changes nothing. That makes a copy easy to resume. The position,
// an entry of the destination, has a key and a sequence number of the source: all keys before the
// key are at least as new as the number. It is written after those keys. A copy that begins again
// continues the walk there, and reads the changes since that number from the feed. If the feed does
// not have them any more, the walk goes through all keys again, and writes the differences.
//
// A source without a feed, such as a plain Redis, is walked through again and again. Its view is of no moment.
package copying
