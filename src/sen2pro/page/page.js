() => {
  // What the server cannot say itself: that it is not there, or that it refused a call.
  const banner = document.createElement('div');
  banner.className = 's2p-lost';
  banner.setAttribute('role', 'alert');
  banner.hidden = true;
  document.body.append(banner);
  const say = (text) => {
    banner.hidden = !text;
    if (banner.textContent !== text) banner.textContent = text;
  };
  const LOST = 'The server does not answer. Your texts are still here: start it again, then reload this page.';
  const BACK = 'The server is there again. Copy your texts if you need them, and reload this page.';
  let was_lost = false;
  const send = window.fetch.bind(window);

  // The server is asked every few seconds whether it is there: texts that are sent to nobody would wait for ever.
  const look = async () => {
    let is_there = false;
    try {
      const answer = await send('health', {cache: 'no-store'});
      await answer.text();
      is_there = answer.ok;
    } catch { is_there = false; }
    was_lost = was_lost || !is_there;
    if (was_lost) say(is_there ? BACK : LOST);
    setTimeout(look, was_lost ? 1500 : 4000);
  };
  setTimeout(look, 4000);

  window.fetch = async (...given) => {
    const answer = await send(...given);
    const to = String(given[0]?.url ?? given[0]);
    if (to.includes('/queue/join') || to.includes('/run/predict')) {
      let why = '';
      if (!answer.ok) try { why = ' ' + (await answer.clone().json()).detail; } catch { why = ''; }
      if (!was_lost) say(answer.ok ? '' : `The server refused this (${answer.status}).${why} Your texts are still here.`);
    }
    return answer;
  };
}
