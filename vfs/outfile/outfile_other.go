//go:build !unix

package outfile

import "io/fs"

const (
	noFollow = 0
	noBlock  = 0
)

func hasOtherNames(fs.FileInfo) bool { return false }
