// Work that a button begins, once at a time.

/** Does the work unless it goes on already. A button that was disabled meanwhile would lose the focus; this one keeps it. */
export async function whileBusy(button, work) {
  if (button.getAttribute('aria-disabled') === 'true') return;
  button.setAttribute('aria-disabled', 'true');
  try {
    await work();
  } finally {
    button.removeAttribute('aria-disabled');
  }
}
