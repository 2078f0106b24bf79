// Package exposition says how a program does, in the text format that Prometheus reads
// (https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4). Nothing is registered anywhere: a
// program that is asked writes its metrics.
package exposition
