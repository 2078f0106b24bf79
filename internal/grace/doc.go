// Package grace waits until a thing that readers may use can be removed.
package grace
