//go:build image

package rivals

// Badger and BadgerConflicts are not in the image, of which they and what they need would be a quarter.
var Badger, BadgerConflicts Engine
