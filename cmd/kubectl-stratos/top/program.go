package top

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
)

// model is what bubbletea runs.
type model struct {
	data          func() Data
	shown         Data
	choice        choice
	width, height int
}

// changed says that the data are others; tick that a second has passed.
type (
	changed struct{}
	tick    struct{}
)

// Run draws what data returns on the terminal, again after each change, until the user or the
// context ends it.
func Run(ctx context.Context, in io.Reader, out io.Writer, data func() Data, changes <-chan struct{}) error {
	program := tea.NewProgram(model{data: data, shown: data()}, tea.WithContext(ctx), tea.WithInput(in),
		tea.WithOutput(out), tea.WithoutSignalHandler())
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		for {
			select {
			case <-ended:
				return
			case <-changes:
				program.Send(changed{})
			}
		}
	}()
	_, err := program.Run()
	if errors.Is(err, tea.ErrProgramKilled) && ctx.Err() != nil {
		return nil
	}
	return err
}

func everySecond() tea.Cmd { return tea.Tick(time.Second, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m model) Init() tea.Cmd { return everySecond() }

// Update implements tea.Model.
func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = msg.Width, msg.Height
	case changed:
		m.shown = m.data()
	case tick:
		m.shown = m.data()
		return m, everySecond()
	case tea.KeyPressMsg:
		return m.key(msg)
	}
	return m, nil
}

func (m model) key(pressed tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := pressed.String()
	switch {
	case name == "ctrl+c", name == "q" && !m.choice.typing:
		return m, tea.Quit
	case m.choice.typing:
		m.choice = typed(m.choice, name, pressed.Key().Text)
	case name == "s":
		m.choice.sort = next(m.choice.sort)
	case name == "/":
		m.choice.typing = true
	case name == "esc":
		m.choice.filter = ""
	}
	return m, nil
}

// typed is the choice after a key while the filter is typed.
func typed(c choice, name, text string) choice {
	switch name {
	case "enter":
		c.typing = false
	case "esc":
		c.typing, c.filter = false, ""
	case "backspace":
		c.filter = backspace(c.filter)
	default:
		c.filter += text
	}
	return c
}

// View implements tea.Model.
func (m model) View() tea.View {
	view := tea.NewView("")
	if m.width > 0 && m.height > 0 {
		view.SetContent(strings.Join(draw(&m.shown, m.choice, m.width, m.height), "\n"))
	}
	view.AltScreen = true
	return view
}
