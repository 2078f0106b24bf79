// Package measuring measures copal beside other stores, and encodings beside each other.
package measuring
