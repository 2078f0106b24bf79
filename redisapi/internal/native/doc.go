// Package native has the commands of copal, for programs that open the store over the network: values
// in the typed form, schemas, ranges of entries, streams as the store has them
// (docs/design/remote.md).
package native
