//go:build race

package soak

// residentSlack is large: the race detector keeps some memory for each page that
// was ever touched.
const residentSlack = 32 << 20
