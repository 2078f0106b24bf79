// Package driver is what package copal asks of a store that is not the engine: one on another machine.
//
// Keys are whole: the escaped name of the map, a colon, and the key's canonical bytes. Values are as the codec of the
// map has encoded them. A driver keeps its own time: what has expired does not exist.
//
// Driver is what each store can do. What only some can do is an interface of its own, which the driver implements or
// not: Sorted, Schemas, Caching, Collections, Sessions, Feed, Informing. Where it is not implemented, the verbs that
// need it are errors.ErrUnsupported. Noticing, Maps and Dumps are for copies of whole stores.
package driver
