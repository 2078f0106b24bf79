// Package sysmem tells how much memory this process may count on.
package sysmem
