// Package budget bounds the memory that the clients of a server have together, with shares by user.
package budget
