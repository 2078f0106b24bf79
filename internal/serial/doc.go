// Package serial checks histories of transactions for a serial order that explains them.
//
// The transactions append numbers to lists, each number once, and read whole lists. So the result
// of a read shows the order and the writer of everything in it, and a history gives away the order
// of its transactions without a search (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies
// from Experimental Observations", VLDB 2020). The results give the edges of Adya's dependency
// graph ("Generalized Isolation Level Definitions", ICDE 2000):
//
//   - ww: a transaction appended after another's number;
//   - wr: it read another's number;
//   - rw: it read a list to which another appended next;
//   - and real time: a transaction that has ended comes before one that has not begun.
//
// A history is serializable, and strictly so, when the graph has no circle and no read is
// impossible. Lost updates, write skew, long forks and anomalies that only a reader notices are all
// circles here.
package serial
