// Package render shows the values of a store as raw reads do: as JSON where their codec has a form of its own.
package render
