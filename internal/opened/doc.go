// Package opened gives packages other than the root the engine of an open *copal.DB.
//
// Package copal sets its variables, and package admin uses them: functions that everyday programs
// never call are not methods of a DB, and need the engine.
package opened
