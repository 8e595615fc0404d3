() => {
  // The server is asked every few seconds whether it is there: texts that are sent to nobody would wait for ever.
  const banner = document.createElement('div');
  banner.className = 's2p-lost';
  banner.setAttribute('role', 'alert');
  banner.hidden = true;
  document.body.append(banner);
  const LOST = 'The server does not answer. Your texts are still here: start it again, then reload this page.';
  const BACK = 'The server is there again. Copy your texts if you need them, and reload this page.';
  let was_lost = false;
  const look = async () => {
    let is_there = false;
    try { const answer = await fetch('health', {cache: 'no-store'}); await answer.text(); is_there = answer.ok; } catch { is_there = false; }
    if (!is_there) was_lost = true;
    banner.hidden = !was_lost;
    const said = was_lost ? (is_there ? BACK : LOST) : '';
    if (banner.textContent !== said) banner.textContent = said;
    setTimeout(look, was_lost ? 1500 : 4000);
  };
  setTimeout(look, 4000);
}
