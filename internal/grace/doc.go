// Package grace tells when something that others may be looking at can be taken away.
package grace
