// Package tlsfiles makes TLS configurations of a server from files that may change while it runs.
package tlsfiles
