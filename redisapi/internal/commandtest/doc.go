// Package commandtest runs commands without a server, so that the tests of a family need neither the
// network nor the other families.
package commandtest
