package damage

import (
	"bytes"
	"fmt"
	"iter"
)

// Harm is a damaged image and a description of the damage.
type Harm struct {
	// What describes the damage.
	What string
	// File is the damaged file, or the first of two swapped files.
	File string
	// Offset is the offset in bytes in File where the damage begins, 0 for a whole file.
	Offset int
	// Image is the damaged image.
	Image Image
}

// Flips yields the image with each bit of the file flipped, one at a time.
func Flips(im Image, name string) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		for i := range im[name] {
			for bit := range 8 {
				b := bytes.Clone(im[name])
				b[i] ^= 1 << bit
				what := fmt.Sprintf("%s: bit %d of byte %d flipped", name, bit, i)
				if !yield(Harm{what, name, i, im.With(name, b)}) {
					return
				}
			}
		}
	}
}

// Cuts yields the image with the file cut to each shorter length.
func Cuts(im Image, name string) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		for n := range im[name] {
			if !yield(Harm{fmt.Sprintf("%s: cut to %d bytes", name, n), name, n, im.With(name, im[name][:n:n])}) {
				return
			}
		}
	}
}

// SectorSize is the unit in bytes that a disk writes completely or not at all.
const SectorSize = 512

// Sectors yields the image with each sector of the file replaced by zeros, by 0xFF, by the sector of an older copy of
// the image, and by each of its neighbours. Replacements that change nothing are left out. older may be nil.
func Sectors(im, older Image, name string) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		whole := im[name]
		for at := 0; at < len(whole); at += SectorSize {
			n := min(SectorSize, len(whole)-at)
			for _, fill := range []struct {
				what string
				with []byte
			}{
				{"zero", make([]byte, n)},
				{"0xFF", bytes.Repeat([]byte{0xff}, n)},
				{"an older copy", sector(older[name], at, n)},
				{"the sector before", sector(whole, at-SectorSize, n)},
				{"the sector after", sector(whole, at+SectorSize, n)},
			} {
				if fill.with == nil || bytes.Equal(fill.with, whole[at:at+n]) {
					continue
				}
				b := bytes.Clone(whole)
				copy(b[at:], fill.with)
				what := fmt.Sprintf("%s: sector at %d is %s", name, at, fill.what)
				if !yield(Harm{what, name, at, im.With(name, b)}) {
					return
				}
			}
		}
	}
}

// sector returns n bytes at off, with zeros after the end of b; nil if b has none.
func sector(b []byte, off, n int) []byte {
	if off < 0 || off >= len(b) {
		return nil
	}
	out := make([]byte, n)
	copy(out, b[off:])
	return out
}

// Missing yields the image without each of its files.
func Missing(im Image) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		for _, name := range im.Names() {
			if !yield(Harm{name + ": missing", name, 0, im.With(name, nil)}) {
				return
			}
		}
	}
}

// Swaps yields the image with the contents of each two of the files swapped.
func Swaps(im Image, names []string) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		for i, a := range names {
			for _, b := range names[:i] {
				h := Harm{a + " and " + b + ": swapped", a, 0, im.With(a, im[b]).With(b, im[a])}
				if !yield(h) {
					return
				}
			}
		}
	}
}

// Tails yields, for each n that is a multiple of step, the image with the last n bytes of the file
// zeroed, and the image with n zeros appended to the file.
func Tails(im Image, name string, step int) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		whole := im[name]
		for n := step; n < len(whole)+step; n += step {
			k := min(n, len(whole))
			b := bytes.Clone(whole)
			clear(b[len(b)-k:])
			at := len(whole) - k
			if !yield(Harm{fmt.Sprintf("%s: zero from %d", name, at), name, at, im.With(name, b)}) {
				return
			}
			b = append(bytes.Clone(whole), make([]byte, n)...)
			if !yield(Harm{fmt.Sprintf("%s: %d zeros appended", name, n), name, len(whole), im.With(name, b)}) {
				return
			}
		}
	}
}
