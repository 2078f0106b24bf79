// Package resp is the protocol that Redis and its clients speak: requests as a server reads them,
// and replies of both versions, RESP2 and RESP3.
//
// The protocol is described at https://redis.io/docs/latest/develop/reference/protocol-spec/.
// Details that it leaves open, such as the quotes of inline commands and the texts of protocol
// errors, are as in Redis 7.2.
package resp
