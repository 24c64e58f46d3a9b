package db

// Salvage says what Open does about a log that is damaged in the middle, among acknowledged
// writes. A torn end, as crashes leave it, opens without it.
type Salvage int

const (
	// SalvageNothing refuses to open.
	SalvageNothing Salvage = iota
	// SalvagePrefix keeps the writes before the damage: the database is as it was at one moment of its past.
	SalvagePrefix
	// SalvageAll keeps every write that can be read, before and after the damage:
	// the most data, in a state that the database may never have had.
	SalvageAll
)
