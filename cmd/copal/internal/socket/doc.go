// Package socket listens at unix sockets whose permissions hold from their first moment.
package socket
