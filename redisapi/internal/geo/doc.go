// Package geo has the commands of geographic positions, which are the scores of a sorted set.
package geo
