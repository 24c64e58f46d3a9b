package damage

import (
	"bytes"
	"fmt"
	"iter"
)

// Harm is one way in which an image was damaged.
type Harm struct {
	// What says what was done, for people.
	What string
	// File is the damaged file, the first of two that were swapped.
	File string
	// Offset is where in File the damage begins, in bytes; 0 for a whole file.
	Offset int
	// Image is the damaged image.
	Image Image
}

// Flips yields the image with each bit of the file turned, one at a time.
func Flips(im Image, name string) iter.Seq[Harm] {
	return func(yield func(Harm) bool) {
		for i := range im[name] {
			for bit := range 8 {
				b := bytes.Clone(im[name])
				b[i] ^= 1 << bit
				if !yield(Harm{fmt.Sprintf("%s: bit %d of byte %d turned", name, bit, i), name, i, im.With(name, b)}) {
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

// SectorSize is the unit in which a disk writes whole or not at all, in bytes.
const SectorSize = 512

// Sectors yields the image with each sector of the file zero, 0xFF, what an
// older copy of the image holds there, and what its neighbours hold. Damage that
// changes nothing is left out. older may be nil.
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
				{"the sector after it", sector(whole, at+SectorSize, n)},
			} {
				if fill.with == nil || bytes.Equal(fill.with, whole[at:at+n]) {
					continue
				}
				b := bytes.Clone(whole)
				copy(b[at:], fill.with)
				if !yield(Harm{fmt.Sprintf("%s: sector at %d is %s", name, at, fill.what), name, at, im.With(name, b)}) {
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

// Swaps yields the image with the contents of each two of the files exchanged.
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

// Tails yields the image with the last n bytes of the file, for each n in steps,
// zeroed, and with that many zeros appended.
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
			if !yield(Harm{fmt.Sprintf("%s: %d zeros after it", name, n), name, len(whole), im.With(name, b)}) {
				return
			}
		}
	}
}
