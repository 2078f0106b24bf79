// Package rivalstest compares an engine of package rivals with a map.
package rivalstest
