// Package chart draws plots as SVG. It is shared by the commands that measure.
//
// A drawing adapts to light and dark: its colours are CSS variables, which [CSS] sets with a media query. It has a
// title and a description for screen readers. [Chart] has axes for lines and marks, and [Bars] shows the same rows in
// several panels. Both can be written as an SVG file; the SVG of a Chart can also be part of a page that includes CSS.
// The SVG of gonum/plot is a fixed picture, black on white.
package chart
