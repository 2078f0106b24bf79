// Package exporting writes entries as lines of JSON.
package exporting
