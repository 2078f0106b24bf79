// Package driver is the interface between package copal and a store that is not the engine: one on
// another machine.
//
// Keys are whole: the escaped name of the map, a colon, and the key's canonical bytes. Values are
// as the codec of the map has encoded them. A driver keeps its own time: expired entries do not
// exist.
//
// Driver has the methods of every store. Features of some stores are interfaces of their own, which
// the driver implements or not: Sorted, KeyOrders, Schemas, Caching, Collections, Sessions, Feed, Informing.
// Without Schemas, values are decoded by the map's codec; without Caching, each read calls Get.
// Without another one, the calls that need it return errors.ErrUnsupported. Noticing, Maps, Dumps
// and Whole are for copies of whole stores. Package elements implements Collections for the engine.
package driver
