//go:build !unix

package storage

// Systems without such flags.
const (
	noFollow = 0
	noBlock  = 0
)
