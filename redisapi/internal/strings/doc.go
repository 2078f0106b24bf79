// Package strings has the commands of string values: counters, bits and HyperLogLogs too.
package strings
