// Package collection is the layout of collections in the log: keys of elements, metas and owners.
//
// A collection is a key that holds many elements. The key has one record, the meta, and each element
// has one of its own.
//
//   - The meta is under the user's key, in the table of its values, so a key has a value or a
//     collection. Its text has the type and the id: "hash 2f".
//   - An element has the key "<id>:<sub-key>". All elements of a key space are one table, in the order
//     of the bytes, and those of a collection are a range of it.
//   - One more element, "<id>;", has the user's key as its value: the owner. It shows whether the
//     collection of an element exists.
//   - The id is a number that the log has not come to when the collection is made, one collection after
//     the other. So it is never given twice.
//
// The meta is written when the collection is made, renamed or given another deadline, and by no change
// of elements. A collection without elements is none: the change that takes the last one out deletes
// the meta.
//
// A deletion of the whole deletes the meta: nothing leads to the elements any more, and the sweeper
// takes them out of the index, after which they are dead like any other record. A rename moves the
// meta, and the deadline of a collection is its meta's.
package collection
