// Package store opens the engine with the rooms that work in it by themselves.
package store
