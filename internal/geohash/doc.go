// Package geohash keeps places as scores of a sorted set, as Redis does.
//
// A place is a score of a sorted set: latitude and longitude are halved 26 times each, and the 52 bits that say which
// half it was stand in turns, the longitude's first (a geohash: G. Niemeyer, 2008; G. M. Morton's order, 1966). So
// places that are near to each other mostly have scores that are near, and a square of the earth is one range of
// scores.
package geohash
