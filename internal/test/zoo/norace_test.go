//go:build linux && !race

package zoo

// raceEnabled shortens the zoo: the planted code is built without the detector.
const raceEnabled = false
