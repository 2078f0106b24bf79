// Package copying copies a store into another one while the first is written to, and proves that both are equal.
//
// A copy has three parts. The walk goes through a view of the source and through the destination in the order of the
// keys, and writes what differs. Rounds follow: each takes a view of the source, has its feed tell which keys have
// changed since the view before, and makes these in the destination as the view has them. The end compares all.
//
// So nothing is applied twice or in the wrong order: what is written is always the state of a key at one moment, and
// to do a part again changes nothing. That makes a copy easy to resume. The position, an entry of the destination,
// says that all keys before one are at least as new as a sequence number of the source. It is written behind what it
// speaks of. A copy that begins again goes on with the walk there, and has the feed tell what has changed since that
// number. Where the feed cannot tell that any more, the walk goes through all keys again, which writes what differs.
//
// A source without a feed, such as a plain Redis, is walked through again and again. Its view is of no moment.
package copying
