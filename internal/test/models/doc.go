// Package models tests the public API: random operations on whole stores, compared with models.
package models
