package userdata

// CheckHandWritten is for a class without bootstrap, in which everything is allowed. It warns of
// storage that a stop wipes. A text that it cannot read gets no warning.
func CheckHandWritten(user string) (warnings []Problem) {
	user = decoded(user)
	if doc, err := readSettings(user); err == nil {
		return doc.bindWarnings()
	}
	parts, err := partsOf(user)
	if err != nil {
		return nil
	}
	for _, p := range parts {
		if mediaType, err := p.mediaType(); err != nil || mediaType != typeNodeConfig {
			continue
		}
		document, err := readNodeConfig(p.text())
		if err != nil {
			continue
		}
		if fault := document.storageFault(); fault != "" {
			warnings = append(warnings, inUserData("%s", fault))
		}
	}
	return warnings
}
