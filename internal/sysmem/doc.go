// Package sysmem returns the memory that this process may use.
package sysmem
