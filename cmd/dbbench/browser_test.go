package main

import _ "embed"

// layout has the positions of elements on a page, in pixels.
type layout struct {
	Width, Height, Inner float64 // of the document, and the width of the window
	Plots                []plotLayout
	Cut                  []string // texts that are larger than their box
}

type plotLayout struct {
	ID                  string
	X, Y, Width, Height float64
	Marks, Texts        int
	Outside             []string // texts that extend beyond the plot
	Overlapping         []string // pairs of texts that overlap
	Named               bool     // it has a title and a description, and neither is empty
}

// measuringScript returns a layout.
//
//go:embed testdata/measuring.js
var measuringScript string
