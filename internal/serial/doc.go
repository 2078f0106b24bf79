// Package serial checks histories of transactions for a serial order that explains them.
//
// The transactions append numbers to lists, each number once, and read whole lists. So the result of a read tells
// the order and the writer of everything in it, and a history gives away the order of its transactions without a
// search (Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations", VLDB 2020).
// The results give the edges of Adya's dependency graph ("Generalized Isolation Level Definitions", ICDE 2000):
//
//   - ww: a transaction appended behind what another had appended;
//   - wr: it read what another had appended;
//   - rw: it read a list to which another appended next;
//   - and, since what has ended comes before what has not begun, real time.
//
// A history is serializable, and strictly so, when the graph has no circle and no read shows what cannot have
// been. Lost updates, write skew, long forks and what a reader alone can notice are all circles here.
package serial
