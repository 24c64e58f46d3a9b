//go:build !darwin

package opt

const defaultOpenFiles = 500
