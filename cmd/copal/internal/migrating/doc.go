// Package migrating copies a store that is written to into another one.
package migrating
