// Package surface tests the public API: rules that hold for all handles alike, and stores with a
// driver.
package surface
