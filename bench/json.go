package main

import (
	"encoding/json"
	"io"
)

// report is all that a run found out. As JSON it is one document.
type report struct {
	Machine  machine  `json:"machine"`
	Quick    bool     `json:"quick"`
	Rounds   int      `json:"rounds"`
	Run      string   `json:"run,omitempty"` // the expression that selected lines
	Warnings []string `json:"warnings,omitempty"`
	Rows     []row    `json:"rows"`
}

func (r *report) writeJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// readJSON reads what writeJSON wrote.
func readJSON(rd io.Reader) (*report, error) {
	d := json.NewDecoder(rd)
	d.DisallowUnknownFields()
	r := new(report)
	return r, d.Decode(r)
}
