// Package opened tells packages beside the root which engine stands behind an open *copal.DB.
//
// Package copal fills it in, and package admin asks: what everyday programs never call has no place
// among the methods of a DB, and needs the engine.
package opened
