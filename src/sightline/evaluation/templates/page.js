const list = document.getElementById('clips');
const by = document.getElementById('by');
const up = document.getElementById('up');

function sort() {
  const key = by.value, sign = up.value === 'most' ? -1 : 1, cards = [...list.children];
  const value = card => {
    const score = JSON.parse(card.dataset.scores)[key];
    return score === undefined || score === null ? null : score;
  };
  cards.sort((a, b) => {
    if (key === '') return a.dataset.order - b.dataset.order;
    const x = value(a), y = value(b);
    if (x === null || y === null) return (x === null) - (y === null);
    return sign * (x - y);
  });
  cards.forEach(card => list.append(card));
}

by.onchange = up.onchange = sort;
document.getElementById('play').onclick = () =>
  document.querySelectorAll('video').forEach(video => { video.currentTime = 0; video.play(); });
document.getElementById('pause').onclick = () =>
  document.querySelectorAll('video').forEach(video => video.pause());
list.onclick = event => {
  if (event.target.tagName !== 'VIDEO') return;
  const play = event.target.paused, time = event.target.currentTime;
  event.target.closest('.clip').querySelectorAll('video').forEach(video => {
    video.currentTime = time;
    play ? video.play() : video.pause();
  });
};
sort();
